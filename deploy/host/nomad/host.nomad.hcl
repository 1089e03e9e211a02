# The host's agent on each client of Nomad, which bridges the client's containers. See docs/BRIDGE.md.
# Each client has /run/berth/containers first, by deploy/host/run-berth-containers.mount.

job "berth-host" {
  datacenters = ["dc1"]
  type        = "system"

  group "berth" {
    # A frozen agent is replaced before its session, and with it every record of the client, is over.
    service {
      provider = "nomad"
      port     = "live"

      check {
        type     = "http"
        path     = "/live"
        interval = "5s"
        timeout  = "2s"

        check_restart {
          limit = 3
        }
      }
    }

    network {
      mode = "host"
      port "live" {}
    }

    task "berth" {
      driver = "docker"
      # QUIT leaves the session, and every record, to the agent that comes next.
      kill_signal  = "SIGQUIT"
      kill_timeout = "15s"

      config {
        image        = "berth"
        network_mode = "host"
        command      = "berthd"
        args         = ["-c", "/local/berth.ini"]
        cap_drop     = ["all"]
        cap_add      = ["chown", "dac_read_search"]

        # rslave: file systems that the client mounts on a registry/ are seen here, too.
        mount {
          type   = "bind"
          source = "/run/berth/containers"
          target = "/run/berth/containers"

          bind_options {
            propagation = "rslave"
          }
        }
        # The session, and with it all records, outlives the allocation.
        mount {
          type   = "bind"
          source = "/var/lib/berth-host"
          target = "/var/lib/berth"
        }
      }

      template {
        destination   = "local/berth.ini"
        change_mode   = "signal"
        change_signal = "SIGHUP"
        data          = <<-EOT
          [agent]
          listen = {{ env "NOMAD_ADDR_live" }}

          [registry]
          url = zookeeper://zk1:2181,zk2:2181,zk3:2181/registry

          [bridge]
          containers = /run/berth/containers
          linger = 5s

          ; A container's name is its job's and its allocation's.
          [container web-*]
          allow = /users/devteam/web/**
        EOT
      }

      resources {
        cpu    = 50
        memory = 128
      }
    }
  }
}
