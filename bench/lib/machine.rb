# frozen_string_literal: true

# What a result was measured on: machine, versions, commit.
require "etc"
require_relative "servers"

module Bench
  module Machine
    module_function

    def facts
      { "date" => Time.now.utc.strftime("%Y-%m-%d %H:%M UTC"), "processor" => processor, "processors" => Etc.nprocessors,
        "memory_mb" => File.read("/proc/meminfo")[/MemTotal:\s+(\d+)/, 1].to_i / 1024, "kernel" => Etc.uname[:release],
        "load_before" => File.read("/proc/loadavg").split.first(3).map(&:to_f), "ruby" => RUBY_DESCRIPTION }
    end

    # MORE: Debian packages that this benchmark compares with besides.
    def versions(more = [])
      debian = Servers::ALL.filter_map(&:package) + %w[ruby-rack ruby-rails ruby-sqlite3 ruby-builder redmine varnish] + more
      installed = IO.popen(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *debian, { err: File::NULL }], &:read)
      { "paceline" => "#{output(Servers.paceline, "--version")} (#{commit})" }.merge(installed.lines.map(&:split).select { |words| words.size == 2 }.to_h)
    end

    def commit
      name = output("git", "-C", Servers::HERE, "describe", "--always", "--dirty", "--abbrev=10")
      name.empty? ? "unknown commit" : name
    end

    def processor
      File.read("/proc/cpuinfo")[/^model name\s*: (.*)$/, 1] || Etc.uname[:machine]
    end

    def output(*command)
      IO.popen([*command, { err: File::NULL }], &:read).strip
    rescue SystemCallError
      ""
    end
  end
end
