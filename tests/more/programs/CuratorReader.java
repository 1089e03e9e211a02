import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;

/** Curator's x-discovery, asked for the instances of a service: HOSTS BASE SERVICE. One line for each, sorted. */
public class CuratorReader {
    public static void main(String[] arguments) throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(arguments[0], new RetryOneTime(1000))) {
            client.start();
            try (ServiceDiscovery<Object> discovery =
                    ServiceDiscoveryBuilder.builder(Object.class).client(client).basePath(arguments[1]).build()) {
                discovery.start();
                List<String> lines = new ArrayList<>();
                Collection<ServiceInstance<Object>> instances = discovery.queryForInstances(arguments[2]);
                for (ServiceInstance<Object> instance : instances) {
                    lines.add(instance.getId() + " " + instance.buildUriSpec() + " " + instance.getServiceType() + " "
                            + instance.getPayload());
                }
                lines.sort(null);
                lines.forEach(System.out::println);
            }
        }
    }
}
