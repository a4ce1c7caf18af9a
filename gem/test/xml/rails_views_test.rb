# frozen_string_literal: true

require "helper"
require "json"
require "open3"

# Views rendered by Rails with Builder and with ours: same bytes, same errors in the same lines. Each in a process of its own; what they
# render is in support/rails_views.txt.
class XMLRailsViewsTest < Minitest::Test
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
    names.each { |name| assert_equal stock[name], ours[name], name }
    assert_operator names.count { |name| stock[name]["text"].to_s.include?("<") }, :>=, 20
    assert_operator names.count { |name| stock[name]["error"] }, :>=, 6
  end

  def test_builder_is_ours_and_the_handler_is_rails_own
    handler = self.class.rendered("ours")["handler"]
    assert_equal "ActionView::Template::Handlers::Builder", handler["name"]
    assert_equal "Paceline::XML::Builder", handler["builder"]
  end

  def test_required_after_action_view
    assert_equal self.class.rendered("ours"), self.class.rendered("ours", "late")
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
    require "builder"
    print ActionView::Base.include?(Paceline::ESI::Helper), " ", defined?(Paceline::XML).inspect, " ", Builder::XmlMarkup
  RUBY

  def test_railtie
    skip "railties is not here" unless Gem::Specification.find_all_by_name("railties").any?
    assert_equal "true nil Builder::XmlMarkup", self.class.run_ruby("-e", RAILTIE, "off")
    assert_equal 'true "constant" Paceline::XML::Builder', self.class.run_ruby("-e", RAILTIE, "on")
  end
end
