# frozen_string_literal: true

# What a result was measured on: machine, versions, commit.
require "etc"
require "json"
require "rbconfig"
require_relative "servers"

module Bench
  module Machine
    # A Ruby that has YJIT uses it, under every server alike, unless the caller says otherwise.
    YJIT = defined?(RubyVM::YJIT) && !ENV.key?("RUBY_YJIT_ENABLE") ? { "RUBY_YJIT_ENABLE" => "1" }.freeze : {}.freeze
    # Versions as that Ruby sees them, which need not be Debian's.
    GEMS = %w[rack rails puma unicorn].freeze
    STACK = 'require "json"; puts JSON.generate("ruby" => RUBY_DESCRIPTION, "gems" => ARGV.to_h { |name| [name, Gem::Specification.find_all_by_name(name).map(&:version).max&.to_s] }.compact)'

    module_function

    def facts
      { "date" => Time.now.utc.strftime("%Y-%m-%d %H:%M UTC"), "processor" => processor, "processors" => Etc.nprocessors,
        "memory_mb" => File.read("/proc/meminfo")[/MemTotal:\s+(\d+)/, 1].to_i / 1024, "kernel" => Etc.uname[:release],
        "load_before" => File.read("/proc/loadavg").split.first(3).map(&:to_f), "ruby" => stack.fetch("ruby") }
    end

    # MORE: Debian packages that this benchmark compares with besides.
    def versions(more = [])
      debian = Servers::ALL.filter_map(&:package) + %w[ruby-rack ruby-rails ruby-sqlite3 ruby-builder redmine varnish] + more
      installed = IO.popen(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *debian, { err: File::NULL }], &:read)
      { "paceline" => "#{output(Servers.paceline, "--version")} (#{commit})", **stack.fetch("gems").transform_keys { |name| "gem #{name}" } }.merge(installed.lines.map(&:split).select { |words| words.size == 2 }.to_h)
    end

    # The Ruby that the servers run under, and its gems.
    def stack
      @stack ||= JSON.parse(IO.popen([YJIT, RbConfig.ruby, "-e", STACK, *GEMS], &:read))
    end

    def commit
      name = output("git", "-C", Servers::HERE, "describe", "--always", "--dirty", "--abbrev=10")
      name.empty? ? head : name
    end

    # Where there is no git, as in a root of another Debian: the commit, but not whether the tree is that of it.
    def head
      folder = File.join(Servers::HERE, ".git")
      folder = File.read(folder)[/\Agitdir: (.*)/, 1] if File.file?(folder)
      name = File.read(File.join(folder, "HEAD")).strip
      ref = name[/\Aref: (.*)/, 1] or return "#{name[0, 10]}, git is not installed"
      common = File.exist?(File.join(folder, "commondir")) ? File.expand_path(File.read(File.join(folder, "commondir")).strip, folder) : folder
      packed = File.join(common, "packed-refs")
      found = File.exist?(File.join(common, ref)) ? File.read(File.join(common, ref)) : File.read(packed)[/^(\h+) #{Regexp.escape(ref)}$/, 1]
      "#{found[0, 10]}, git is not installed"
    rescue SystemCallError, NoMethodError
      "unknown commit"
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
