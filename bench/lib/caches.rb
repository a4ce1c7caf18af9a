# frozen_string_literal: true

# The caches that are compared, each in front of the same HTTP origin, and that origin.
require "fileutils"
require_relative "servers"

module Bench
  module Caches
    KILOBYTE = Random.new(5).bytes(512).unpack1("H*").freeze
    OBJECTS = { "1k" => KILOBYTE, "54k" => (KILOBYTE * 54).freeze }.freeze
    RULE = "[[cache]]\npath = \"/*\"\nttl = \"5s\"\ncookies = [\"Redmine\"]\nset_cookie = \"strip\"\n"
    BASELINE = "nginx"

    # Headers that tell a hit, and what their value is then, as loadgen takes it (Hit in crates/bench/src/driven/plan.rs).
    HITS = { "paceline" => ["cache-status", { starts: "paceline; hit" }], "nginx" => ["X-Cache", { is: "HIT" }], "varnish" => ["X-Varnish", { numbers: 2 }] }.freeze

    module_function

    def hit?(rule, value)
      case rule
      in { starts: text } then value.start_with?(text)
      in { is: text } then value == text
      in { numbers: count } then value.match?(/\A\d+(?: \d+){#{count - 1}}\z/)
      end
    end

    def origin
      Server.new(name: "origin", worker: /nginx: worker/, workers: 1, threads: 1, command: lambda do |port, work|
        FileUtils.mkdir_p("#{work}/objects")
        OBJECTS.each { |name, bytes| File.write("#{work}/objects/#{name}", bytes) }
        nginx("origin.nginx.conf", port, work)
      end)
    end

    # UPSTREAM: the origin's port.
    def before(upstream, size: "64MB")
      flags = ["--upstream", "http://127.0.0.1:#{upstream}", "--cache-size", size]
      [paceline("paceline", [*flags, "-q"], "cache before the same origin (--upstream), no access log"),
       paceline("paceline, access log", flags, "the same with its access log, which is the default"),
       nginx_before("cache.nginx.conf", upstream), varnish_before("cache.vcl", upstream)]
    end

    # Caches with the stubborn rule, where the application is Redmine.
    def with_rule(upstream)
      [nginx_before("redmine.nginx.conf", upstream), varnish_before("redmine.vcl", upstream)]
    end

    # Paceline serves the application itself. SETTINGS: of paceline.toml.
    def paceline_with_app(name, settings, note)
      Server.new(name: name, worker: /\Apaceline worker/, hit: HITS["paceline"], threads: Servers::THREADS, note: note, command: lambda do |port, work|
        File.write("#{work}/paceline.toml", settings)
        [Servers.paceline, "-C", "#{work}/paceline.toml", "--dir", ".", "-b", "tcp://127.0.0.1:#{port}", "-e", "production", "-w", Servers::WORKERS,
         "-t", Servers::THREADS, "-q", *Servers::AS_ROOT]
      end)
    end

    def paceline(name, flags, note)
      Server.new(name: name, worker: /paceline/, workers: 1, threads: 0, hit: HITS["paceline"], note: note,
                 command: ->(port, _) { [Servers.paceline, "-C", "-", "-b", "tcp://127.0.0.1:#{port}", "-e", "production", *flags] })
    end

    def nginx_before(template, upstream)
      Server.new(name: "nginx", package: "nginx", worker: /nginx: worker/, workers: 2, threads: 0, hit: HITS["nginx"],
                 note: "proxy_cache, 2 workers, no access log (bench/peers/#{template})",
                 command: ->(port, work) { nginx(template, port, work, upstream) })
    end

    def varnish_before(template, upstream)
      Server.new(name: "varnish", package: "varnish", worker: /varnishd/, workers: 2, threads: 0, hit: HITS["varnish"],
                 note: "malloc storage, default threads (bench/peers/#{template})", command: lambda do |port, work|
        file = fill(template, port, work, upstream)
        ["/usr/sbin/varnishd", "-F", "-n", "#{work}/varnish", "-a", "127.0.0.1:#{port}", "-f", file, "-s", "malloc,1g"]
      end)
    end

    def nginx(template, port, work, upstream = nil)
      ["/usr/sbin/nginx", "-e", "#{work}/nginx.log", "-p", work, "-c", fill(template, port, work, upstream)]
    end

    def fill(template, port, work, upstream)
      text = File.read(File.join(Servers::PEERS, template)).gsub(/WORK|PORT|ORIGIN|KILOBYTE/, "WORK" => work, "PORT" => port.to_s, "ORIGIN" => upstream.to_s, "KILOBYTE" => KILOBYTE)
      File.join(work, template).tap { |path| File.write(path, text) }
    end
  end
end
