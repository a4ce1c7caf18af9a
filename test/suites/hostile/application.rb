# frozen_string_literal: true

# The hostile application: runs the code of the behaviour that is asked for, and answers good requests well.
require_relative "behaviour"
require "fiddle"
require "socket"

module Hostile
  # What the code of a behaviour may call. One for each request.
  class Guest
    def initialize(env) = @env = env

    # Repeats the token of the request, as every answer of this application does.
    def token = @env["QUERY_STRING"]

    def ok(body = [token], headers = {}) = [200, { "content-type" => "text/plain" }.merge(headers), body]

    # A body that the block yields, and whose `close` is as given.
    def body(close: -> {}, &parts) = Body.new(parts, close)

    # The same as a response.
    def streamed(headers = {}, **options, &parts) = ok(body(**options, &parts), headers)

    # An object with these methods, by name.
    def object(**methods) = Object.new.tap { |made| methods.each { |name, code| made.define_singleton_method(name, &code) } }

    def worker = ObjectSpace.each_object(Paceline::Server::Worker).first

    def channel = Thread.current[:paceline_channel]

    # Sends a frame to the front as the worker would.
    def control(type, payload = "", fd: nil) = worker.control.send(type, payload, fd: fd)

    # The worker's descriptors, but the standard ones.
    def descriptors = Dir.children("/proc/self/fd").map(&:to_i).select { |number| number > 2 && File.exist?("/proc/self/fd/#{number}") }

    def sockets = descriptors.select { |number| File.readlink("/proc/self/fd/#{number}").start_with?("socket:") }

    def io(number) = IO.for_fd(number, autoclose: false)

    # Each of them, whatever becomes of the one before.
    def each_socket
      sockets.each do |number|
        yield BasicSocket.for_fd(number).tap { |socket| socket.autoclose = false }
      rescue SystemCallError, IOError, ArgumentError
        nil
      end
    end

    # Becomes a program that goes on for longer than the suite, and that the suite knows.
    def linger = exec("sleep", LINGERING)

    # A fork that Ruby hears nothing of.
    def bare_fork = LIBC_FORK.call

    # An io that is not read for two seconds, and then closed.
    def hold(io)
      Thread.new { sleep(2) && io.close }
      io
    end

    # In a folder of its own that is gone when the block is left.
    def removed_folder
      folder = Dir.mktmpdir("hostile-")
      Dir.chdir(folder)
      Dir.rmdir(folder)
    end
  end

  LINGERING = "98765"
  LIBC_FORK = Fiddle::Function.new(Fiddle.dlopen(nil)["fork"], [], Fiddle::TYPE_INT, need_gvl: true)

  Body = Struct.new(:parts, :closing) do
    def each(&block) = parts.call(block)
    def close = closing.call
  end

  APP = lambda do |env|
    return [200, { "content-type" => "text/plain" }, [env["QUERY_STRING"]]] if env["PATH_INFO"] == "/good"
    behaviour = BY_PATH.fetch(env["PATH_INFO"]) { return [404, {}, ["no such behaviour"]] }
    Guest.new(env).instance_exec(env, &behaviour.code)
  end

  BY_PATH = GROUPS.flat_map(&:behaviours).to_h { |behaviour| [behaviour.path, behaviour] }
end
