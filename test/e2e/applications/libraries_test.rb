# The gem's libraries in an application that the server runs: without the gem installed, and with another one.
require_relative "../support/scenario"

class LibrariesTest < Minitest::Test
  include Scenario

  PAGE = File.join(CHECKOUT, "docs/request-context.md")

  # The config.ru of the page that explains it, as somebody would copy it.
  def test_an_application_without_the_gem_has_its_libraries
    config = File.read(PAGE)[/^    require "paceline\/context"\n(?:(?:    .*)?\n)+?(?=\n    \$ )/]
    server = serve(app("config.ru" => config.gsub(/^    /, "")))
    assert_equal "paid by ann in ab12\n", server.get("/?user=ann", "X-Request-Id" => "ab12").body
  end

  def test_an_installed_gem_goes_before_the_server_s_own_libraries
    dir = app("config.ru" => <<~'RUBY',
      require "paceline/context"
      run ->(_env) { [200, { "content-type" => "text/plain" }, [Paceline::CONTEXT_OF]] }
    RUBY
      "installed/specifications/paceline-9.0.gemspec" => <<~'RUBY',
        Gem::Specification.new { |gem| gem.name, gem.version, gem.summary, gem.authors = "paceline", "9.0", "another one", ["somebody"] }
      RUBY
      "installed/gems/paceline-9.0/lib/paceline/context.rb" => %(module Paceline\n  CONTEXT_OF = "the installed gem"\nend\n))
    server = serve(dir, env: { "GEM_PATH" => [File.join(dir, "installed"), *Gem.path].join(":") })
    assert_equal "the installed gem", server.get("/").body
  end
end
