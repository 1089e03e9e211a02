import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.UriSpec;

/** Curator's x-discovery, with an instance of its own until its input ends: HOSTS BASE SERVICE ID ADDRESS PORT. */
public class CuratorWriter {
    public static void main(String[] arguments) throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(arguments[0], new RetryOneTime(1000))) {
            client.start();
            ServiceInstance<Object> instance = ServiceInstance.<Object>builder().name(arguments[2]).id(arguments[3])
                    .address(arguments[4]).port(Integer.parseInt(arguments[5]))
                    .uriSpec(new UriSpec("{scheme}://{address}:{port}")).build();
            try (ServiceDiscovery<Object> discovery = ServiceDiscoveryBuilder.builder(Object.class).client(client)
                    .basePath(arguments[1]).thisInstance(instance).build()) {
                discovery.start();
                while (System.in.read() >= 0) {
                    continue;
                }
            }
        }
    }
}
