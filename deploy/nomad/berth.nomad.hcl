# A server and its agent in one group, for Nomad: the agent runs beside the server, in its network.
#
# In HCL ${…} belongs to Nomad, and $${…} is what berthd gets as ${…}. The address is that of the
# allocation: Nomad's own variables, as the port may be mapped.

job "web" {
  datacenters = ["dc1"]

  group "web" {
    count = 2

    network {
      port "http" { to = 8080 }
    }

    task "server" {
      driver = "docker"
      # After the agent has deregistered: see kill_timeout below.
      shutdown_delay = "10s"

      config {
        image = "my-server"
        ports = ["http"]
      }
    }

    task "berth" {
      driver = "docker"
      # Longer than 3 s to deregister and drain_delay; see berthd(8).
      kill_timeout = "15s"

      lifecycle {
        hook    = "poststart"
        sidecar = true
      }

      config {
        image   = "berth"
        command = "berthd"
        args    = ["-c", "/local/berth.ini"]
      }

      template {
        destination   = "local/berth.ini"
        change_mode   = "signal"
        change_signal = "SIGHUP"
        data          = <<-EOT
          [agent]
          drain_delay = 5s

          [registry]
          url = zookeeper://zk1:2181,zk2:2181,zk3:2181/registry

          [component]
          user = devteam
          service_class = web
          instance = {{ env "NOMAD_JOB_NAME" }}
          name = {{ env "NOMAD_GROUP_NAME" }}-{{ env "NOMAD_ALLOC_INDEX" }}
          id = {{ env "NOMAD_ALLOC_ID" }}
          attribute.host = $${berth.hostname}

          [endpoint http]
          api = http://example.org/api/v1
          protocol = http
          address_type = uri
          address = http://{{ env "NOMAD_ADDR_http" }}/

          [check http]
          type = http
          target = http://{{ env "NOMAD_ADDR_http" }}/health
          interval = 10s
        EOT
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
