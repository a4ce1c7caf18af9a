# frozen_string_literal: true

require "helper"
require "json"

# A doctor's part of the conversation with shadows: has them forked from a preloader, and sends what they are to replay.
class ShadowCase < Paceline::Test
  # The beginning of a config.ru: as on a kernel that has neither Landlock nor seccomp.
  WITHOUT_KERNEL = <<~RUBY.freeze
    require #{File.expand_path("../../../../lib/paceline/server/shadow/confinement", __dir__).inspect}
    Paceline::Server::Shadow::Confinement::Landlock.singleton_class.define_method(:abi) { 0 }
    Paceline::Server::Shadow::Confinement::SystemCalls.singleton_class.define_method(:known?) { false }
  RUBY

  # The connection to one shadow.
  class Shadow
    CLOCK = 1_764_000_000.0

    # The first line.
    attr_reader :hello

    def initialize(io)
      @io = io
      @hello = read
    end

    def pid = @hello.fetch("pid")

    # Nil: the shadow has ended.
    def read
      line = Timeout.timeout(FakeFront::LIMIT) { @io.gets }
      line && JSON.parse(line)
    end

    def tell(command)
      @io.write(JSON.generate(command) << "\n")
    end

    def ask(command)
      tell(command)
      read
    end

    def replay(path, query: "", method: "GET", scheme: "http", host: "shop.test", headers: [], **settings)
      request = { method: method, path: path, query: query, scheme: scheme, host: host, headers: headers }
      { do: "replay", id: 7, request: request, observe: false, clock: CLOCK, seed: 42, outbound: "replay", deliver: "gathered" }.merge(settings)
    end

    # What a request was answered, its body as "text".
    def get(path, **settings)
      result = ask(replay(path, **settings))
      result.merge("text" => result.fetch("body").unpack1("m"))
    end

    def close = @io.close
  end

  # Has a shadow forked.
  def shadow(front, dir)
    path = File.join(dir, "doctor-#{@sockets = (@sockets || 0) + 1}")
    UNIXServer.open(path) do |server|
      front.control.send(F::SHADOW, F.fields(path))
      Shadow.new(Timeout.timeout(FakeFront::LIMIT) { server.accept })
    end
  end

  # Starts an app given as files (a String: config.ru), and yields a shadow of it.
  def with_shadow(files, **settings)
    files = { "config.ru" => files } if files.is_a?(String)
    with_front(files, **settings) do |front, dir|
      loaded = front.await_start
      assert_equal F::LOADED, loaded.type, loaded.payload
      yield shadow(front, dir), dir, front
    end
  end

  # The parts of the app that answer paths; each returns text.
  def routes(routes)
    "run(lambda do |env|\n  text = case env['PATH_INFO']\n#{routes.map { |path, code| "  when #{path.inspect} then #{code}\n" }.join}  end\n  [200, {}, [text.to_s]]\nend)\n"
  end

  def note(kind, what, at = nil)
    { "kind" => kind, "what" => what, "at" => at || "config.ru:#{@line}" }
  end
end
