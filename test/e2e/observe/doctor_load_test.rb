# `paceline doctor` tries other numbers of threads under load: what visitors gain who had to wait for one.
require "json"
require "open3"
require_relative "../support/scenario"
require_relative "../support/asking"
require_relative "../support/beside_doctor"

class DoctorLoadTest < Minitest::Test
  include Scenario
  include Asking
  include BesideDoctor

  # A page that waits for something else.
  APP = <<~'RUBY'
    run lambda { |env|
      sleep 0.02
      [200, { "content-type" => "text/plain" }, ["hello"]]
    }
  RUBY
  VISITORS = 4

  # Runs the doctor beside a server that so many visitors ask for one page after the other while it watches. The report.
  def beside_visitors(server, *arguments)
    Open3.popen3(environment(server.dir), BIN, "doctor", "--watch", "3s", "--busy", "--json", *arguments, chdir: server.dir) do |_, out, err, ended|
      said = +""
      said << err.readpartial(4096) until said.include?("watching requests")
      watching = true
      visitors = Array.new(VISITORS) { Thread.new { server.get("/page") while watching } }
      said << err.readpartial(4096) until said.include?("replaying")
      watching = false
      visitors.each(&:join)
      @said = said + err.read
      printed = out.read
      assert_includes [0, 1], ended.value.exitstatus, @said + printed
      return JSON.parse(printed)
    end
  end

  def test_visitors_who_wait_for_the_only_thread
    dir = app("config.ru" => APP, "config/puma.rb" => "# One at a time.\nworkers 1\nthreads 1, 1\n", ".gitignore" => "state\ntmp\nGemfile.lock\n")
    commit(dir)
    server = serve(dir)
    found = beside_visitors(server, "--only", "too_few_threads", "--rounds", "3")
    advice = found["advice"].first
    assert_equal ["too_few_threads", "load", 3, "config/puma.rb"], [*advice&.values_at("kind", "trial", "rounds"), advice&.dig("fix", "file")], found
    assert_match(/\Athreads (\d+), \1\z/, advice["fix"]["line"])
    gain = advice["gains"].first
    # How sure it is of that after three rounds depends on the machine.
    assert_operator gain["gain_us"], :>, gain["of_us"] * 0.2, "visitors wait for each other, and need not"
    assert_operator gain["low_us"], :>, 0
    under_load = advice["load"]
    assert_includes 2..(2 * VISITORS), under_load["visitors"]
    assert_operator under_load["trial"]["per_second"], :>, under_load["control"]["per_second"]
    eventually("the copies to be gone") { shadows(server).empty? }

    visiting = true
    visitor = Thread.new { server.get("/page") while visiting }
    assert_match(/: kept; to undo it, run: git checkout config\/puma.rb && paceline rollback$/, doctor(dir, "apply", 1, "--for", "1s"))
    visiting = false
    visitor.join
    assert_equal Integer(advice["fix"]["line"][/\d+/]), control_json(server, "/status")["sites"].values.first["threads"]
    assert_equal "# One at a time.\nworkers 1\n#{advice["fix"]["line"]}\n", File.read("#{dir}/config/puma.rb")
    refute File.exist?("#{dir}/paceline.toml")
  end
end
