# frozen_string_literal: true

# Hosts with a network of their own (namespaces), joined by a switch whose cables can be slow, lossy or cut. Root only. It never touches the machine's own
# network: each host has one interface, and nothing leads out.
require "open3"
require_relative "switch"

class Network
  PREFIX = "paceline-soak-"

  # Why there can be none; nil if there can.
  def self.missing
    return "it makes network namespaces, so it needs root" unless Process.uid.zero?
    return "there is no /dev/net/tun" unless File.chardev?("/dev/net/tun")
    "there is no `ip`" unless system("ip", "-V", out: File::NULL, err: File::NULL)
  end

  # COUNT hosts: addresses 10.78.0.1 and so on.
  def initialize(count, seed)
    clean
    @hosts = Array.new(count) { |number| "#{PREFIX}#{Process.pid}-#{number}" }
    interfaces = @hosts.each_index.to_h { |number| [address(number), add(number)] }
    @switch = Switch.new(interfaces, seed)
  end

  def address(number) = "10.78.0.#{number + 1}"

  # What a command is run by to be on this host.
  def on(number) = ["ip", "netns", "exec", @hosts[number]]

  # One direction. RULE: see Switch.
  def rule(from, to, **rule) = @switch.rule(address(from), address(to), **rule)

  # All cables are as good as new.
  def free = @switch.free

  def close
    @switch&.close
    @hosts.each { |host| system("ip", "netns", "del", host, err: File::NULL) }
  end

  private

  def add(number)
    host, name = @hosts[number], "soak#{number}x#{Process.pid % 100_000}"
    ip("netns", "add", host)
    interface = Switch.interface(name)
    ip("link", "set", name, "netns", host)
    ip("-n", host, "address", "add", "#{address(number)}/24", "dev", name)
    [name, "lo"].each { |one| ip("-n", host, "link", "set", one, "up") }
    interface
  end

  # What runs that were killed have left.
  def clean
    left = ip("netns", "list").scan(/^(#{PREFIX}(\d+)-\d+)/).reject { |_, pid| File.exist?("/proc/#{pid}") }
    left.each { |host, _| ip("netns", "del", host) }
  end

  def ip(*arguments)
    out, status = Open3.capture2e("ip", *arguments)
    status.success? ? out : raise("ip #{arguments.join(" ")}: #{out}")
  end
end
