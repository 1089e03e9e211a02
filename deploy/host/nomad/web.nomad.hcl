# A server and its agent, whose records the client's agent announces: no session, no credentials, no
# network of the registry. Nomad's docker driver has to allow mounts of the host (volumes).

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
        # The order counts: registry/ is writable on top of the subdirectory, which is not. Docker
        # makes both.
        volumes = [
          "/run/berth/containers/web-${NOMAD_ALLOC_ID}:/run/berth/host:ro",
          "/run/berth/containers/web-${NOMAD_ALLOC_ID}/registry:/run/berth/host/registry",
        ]
      }

      template {
        destination   = "local/berth.ini"
        change_mode   = "signal"
        change_signal = "SIGHUP"
        data          = <<-EOT
          [agent]
          drain_delay = 5s

          [registry]
          url = host:/run/berth/host

          [component]
          user = devteam
          service_class = web
          instance = {{ env "NOMAD_JOB_NAME" }}
          name = {{ env "NOMAD_GROUP_NAME" }}-{{ env "NOMAD_ALLOC_INDEX" }}
          id = {{ env "NOMAD_ALLOC_ID" }}

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
        memory = 32
      }
    }
  }
}
