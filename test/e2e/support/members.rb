# Several servers of one cluster, each with the same small application and a state folder of its own. It asserts nothing itself.
require_relative "control"
require_relative "valkey"

module Members
  # What the file `version` says is what the application is: "broken" does not start, "unready" answers /up with 503, "failing" answers
  # with 500, and "slow..." waits at its boot for the FIFO `gate`.
  APP = <<~'RUBY'.freeze
    version = File.read("version")
    raise "the cellar is empty" if version == "broken"
    File.read("gate") if version.start_with?("slow")
    run(lambda do |env|
      is_up = env["PATH_INFO"] == "/up"
      status = is_up && version == "unready" ? 503 : !is_up && version == "failing" ? 500 : 200
      [status, { "content-type" => "text/plain" }, [version]]
    end)
  RUBY

  def setup
    skip "there is no valkey-server and no redis-server" unless Valkey.program
    @valkey = Valkey.new
  end

  def teardown
    @fronts&.each { |front| Process.kill(:CONT, front.pid) unless front.ended? }
    super
    @valkey&.close
  end

  # Starts so many servers; returns when each knows all of them. They are in the order in which they are shown.
  def fronts(count, ttl: "1h", url: @valkey.url, files: nil, toml: "")
    @toml = "[cluster]\nurl = \"#{url}\"\nname = \"shop\"\npartition_ttl = \"#{ttl}\"\n#{toml}"
    @fronts = Array.new(count) { start(app(files ? files.merge("paceline.toml" => @toml) : self.files)) }.sort_by(&:pid)
    @fronts.each { |front| eventually("all servers") { control(front, "/cluster")["members"].size == count } }
  end

  def files = { "config.ru" => APP, "version" => "old", "paceline.toml" => @toml }

  def start(dir, ready: true)
    serve(dir, "-w", "1", "-t", "2", "-e", "production", env: { "XDG_STATE_HOME" => File.join(dir, "state") }, ready: ready)
  end

  # What one server says of another.
  def member(front, other) = control(front, "/cluster")["members"].find { |member| member["pid"] == other.pid }

  # What each server answers with.
  def versions = @fronts.map { |front| front.get("/").body }

  # The next version of each server's application.
  def deploy(*versions)
    @fronts.zip(versions.cycle) { |front, version| File.write(File.join(front.dir, "version"), version) }
  end
end
