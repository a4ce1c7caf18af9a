# The dashboard's page of what the doctor has found last. Apart from the dashboard's other scenarios, since the doctor gives way to all other processes.
require_relative "../support/control"
require_relative "../support/dashboard_pages"
require_relative "../support/scenario"

class AdvicePageTest < Minitest::Test
  include Scenario
  include Control
  include DashboardPages

  APP = <<~RUBY.freeze
    run(lambda do |env|
      raise "no such luck" if env["PATH_INFO"] == "/raise"
      [200, { "content-type" => "text/plain" }, ["ok"]]
    end)
  RUBY

  def test_what_the_doctor_found_last_has_a_page
    dir = app("config.ru" => APP)
    server = serve(dir, "-w", "1", "--control-url", "tcp://127.0.0.1:0", env: { "XDG_STATE_HOME" => File.join(dir, "state") })
    name = File.basename(server.dir)
    assert_includes fetch(server, "/advice"), "#{name}: no advice yet"
    assert_includes fetch(server, "/advice"), ">paceline doctor</pre>"
    refute_includes fetch(server, "/"), "aria-label=\"Pages\""
    out, status = command(server.dir, "doctor", "--path", "/", "--path", "/raise", "--only", "small_writes")
    assert_equal 0, status, out
    page = fetch(server, "/advice")
    ["#{name}: nothing to change", "1 replayed GET", "Requests left out", "GET /raise", "RuntimeError"].each { |part| assert_includes page, part }
    refute_match(/ style=|<script>| on\w+=/, page)
    eventually("the link in the head") { fetch(server, "/").include?("<nav aria-label=\"Pages\"><a href=\"/advice\">") }

    result = File.join(server.dir, "tmp/paceline/doctor.json")
    File.write(result, "<b>hello")
    assert_includes fetch(server, "/advice"), "#{result}: is no result of paceline doctor"
    File.delete(result)
    File.symlink("/etc/passwd", result)
    page = fetch(server, "/advice?site=#{name}")
    assert_includes page, "The last result can't be read: #{result}"
    refute_includes page, "root:"
    assert_equal "200", server.get("/").code
  end
end
