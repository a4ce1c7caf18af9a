# frozen_string_literal: true

require "helper"
require "json"
require "open3"

# Views rendered by Rails with its own handler for .builder and with ours: same bytes, same errors in the same lines. Each in a process of
# its own; what they render is in support/rails_views.txt.
class XMLTemplateRailsTest < Minitest::Test
  SUPPORT = File.expand_path("support", __dir__)
  LIB = File.expand_path("../../lib", __dir__)
  HERE = %w[actionpack actionview builder].all? { |name| Gem::Specification.find_all_by_name(name).any? }

  def self.rendered(*mode)
    (@rendered ||= {})[mode] ||= JSON.parse(run_ruby(File.join(SUPPORT, "rails_views.rb"), *mode))
  end

  def self.run_ruby(*arguments)
    out, error, status = Open3.capture3(RbConfig.ruby, "-W0", "-I#{LIB}", *arguments)
    raise "#{arguments.join(" ")}: #{error}" unless status.success?

    out
  end

  def setup
    skip "Rails is not here" unless HERE
  end

  def test_same_as_rails
    stock, ours = self.class.rendered("stock"), self.class.rendered("ours")
    names = stock.keys - ["handler"]
    assert_operator names.size, :>=, 30
    assert_equal stock.keys, ours.keys
    names.each { |name| assert_equal stock[name], ours[name].merge("spot" => nil).slice(*stock[name].keys), name }
    assert_operator names.count { |name| stock[name]["text"].to_s.include?("<") }, :>=, 20
    assert_operator names.count { |name| stock[name]["error"] }, :>=, 6
  end

  def test_handler_and_builder_are_ours
    handler = self.class.rendered("ours")["handler"]
    assert_equal "Paceline::XML::TemplateHandler", handler["name"]
    assert_equal "Paceline::XML::Builder", handler["builder"]
  end

  # Of ours, in compiling.
  def test_a_mistake_costs_speed_only
    assert_equal self.class.rendered("stock")["plain"], self.class.rendered("ours")["handler"]["mistake"]
  end

  def test_required_after_action_view
    assert_equal self.class.rendered("ours"), self.class.rendered("ours", "late")
  end

  # What Rails 7.1 and later mark in the line that failed.
  def test_columns_of_the_template
    marks = { "fails_in_value" => [4, ".no_such_method"], "fails_in_value_frozen" => [4, ".no_such_method"],
              "fails_on_line_one" => [1, ".missing_here"], "fails_in_partial" => [4, "nothing_here"] }
    results = self.class.rendered("ours")
    skip "this Rails marks nothing" unless results["fails_in_value"]["spot"]
    marks.each do |name, (line, text)|
      spot = results[name]["spot"]
      assert_equal line, spot["line_number"], name
      before, marked, after = spot["code"][line.to_s]
      assert_equal text, marked, name
      assert_equal results[name]["extract"].find { |shown| shown.match?(/\A\s*#{line}:/) }.sub(/\A\s*#{line}: /, ""),
                   [before, marked, after].join.chomp, name
    end
  end

  RAILTIE = <<~'RUBY'
    require "logger"
    require "rails"
    require "action_controller/railtie"
    require "paceline"
    app = Class.new(Rails::Application) do
      config.eager_load = false
      config.root = __dir__
      config.logger = Logger.new(nil)
      config.secret_key_base = "x"
      config.paceline.xml = true if ARGV[0] == "on"
    end
    app.initialize!
    print ActionView::Base.include?(Paceline::ESI::Helper), " ", defined?(Paceline::XML).inspect, " ",
          ActionView::Template.handler_for_extension("builder").class
  RUBY

  def test_railtie
    skip "railties is not here" unless Gem::Specification.find_all_by_name("railties").any?
    assert_equal "true nil ActionView::Template::Handlers::Builder", self.class.run_ruby("-e", RAILTIE, "off")
    assert_equal 'true "constant" Paceline::XML::TemplateHandler', self.class.run_ruby("-e", RAILTIE, "on")
  end
end
