# frozen_string_literal: true

# Looks for what a fork of this process would break: threads, which the fork does not have; connections, whose bytes two
# processes would take from each other; programs that run. Looks only, closes nothing. What a C extension keeps to itself can't be seen.
require "socket.so"
require_relative "process_stat"

module Paceline
  module Server
    class ForkSafety
      HERE = "/proc/self/fd"
      # What Ruby itself opens, and opens again after a fork.
      RUBYS_OWN = /\Aanon_inode:\[?event(?:fd|poll)\]?\z/
      TIMEOUT = "Timeout stdlib thread"
      ENDED = %w[Z X].freeze
      private_constant :HERE, :RUBYS_OWN, :TIMEOUT, :ENDED

      # What sockets and pipes are open, by their names in the kernel. Those of a process that was just forked are shared with
      # its parent already, so one more fork changes nothing about them.
      def self.open_ends
        descriptors.values.select { |name| name.start_with?("socket:", "pipe:") }
      end

      # The number of each open descriptor, and what it leads to.
      def self.descriptors
        Dir.children(HERE).each_with_object({}) do |number, found|
          found[number.to_i] = File.readlink("#{HERE}/#{number}")
        rescue Errno::ENOENT # the one that listed them
          nil
        end
      end

      # `threads` and `descriptors` (numbers) are the server's own; `shared`: see open_ends.
      def initialize(threads: [], descriptors: [], shared: [])
        @threads = [Thread.main, Thread.current, *threads]
        @descriptors = [0, 1, 2, *descriptors]
        @shared = shared
      end

      # A line for each; none: a fork does no harm.
      def obstacles
        GC.start # closes what nobody holds any more
        threads + children + connections
      end

      private

      # `fork_safe` is what Puma and Rails agreed on for threads that start again by themselves.
      def threads
        foreign = Thread.list.select(&:alive?) - @threads
        foreign.reject! { |thread| thread.name == TIMEOUT || thread.is_a?(Process::Waiter) || thread.thread_variable_get(:fork_safe) }
        foreign.map do |thread|
          place = thread.inspect[/(\S+:\d+) [\w ()]+>\z/, 1]
          words = ["thread", *(thread.name.inspect if thread.name), *("started at #{place}" if place)]
          "#{words.join(" ")} runs"
        end
      end

      def children
        Dir.children("/proc").grep(/\A\d+\z/).filter_map do |pid|
          stat = ProcessStat.of(pid) or next
          "process #{pid} (#{stat.name}), a child, runs" if stat.parent == Process.pid && !ENDED.include?(stat.state)
        end
      end

      def connections
        ForkSafety.descriptors.filter_map do |number, name|
          next if @descriptors.include?(number) || @shared.include?(name) || RUBYS_OWN.match?(name)
          what = describe(number, name)
          "#{what} is open (descriptor #{number}#{holder(number)})" if what
        rescue Errno::ENOENT, Errno::EBADF # closed since
          nil
        end
      rescue Errno::ENOENT, Errno::EACCES
        ["#{HERE} can't be read, so what is open is not known"]
      end

      # Nil: plain files and devices, which are shared without harm.
      def describe(number, name)
        stat = File.stat("#{HERE}/#{number}")
        return if stat.file? || stat.directory? || stat.chardev? || stat.blockdev?
        return socket(number) if stat.socket?
        stat.pipe? ? "a pipe" : name.delete_prefix("anon_inode:").delete("[]")
      end

      # A datagram is sent whole by the process that sends it: to a log or a counter of metrics, where no answer is waited for.
      def socket(number)
        socket = Socket.for_fd(number)
        socket.autoclose = false
        return if socket.getsockopt(Socket::SOL_SOCKET, Socket::SO_TYPE).int == Socket::SOCK_DGRAM
        listening = socket.getsockopt(Socket::SOL_SOCKET, Socket::SO_ACCEPTCONN).bool
        listening ? "a socket that listens on #{address(socket.local_address)}" : "a connection to #{address(socket.remote_address)}"
      rescue SystemCallError, ArgumentError # nobody at its other end
        "a socket"
      end

      def address(address)
        address.unix? && address.unix_path.empty? ? "a socket without a name" : address.inspect_sockaddr
      end

      def holder(number)
        io = ObjectSpace.each_object(IO).find { |one| !one.closed? && one.autoclose? && one.fileno == number }
        io && ", #{io.class}"
      rescue IOError
        nil
      end
    end
  end
end
