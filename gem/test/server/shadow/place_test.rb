# frozen_string_literal: true

require "helper"
require "paceline/server/shadow/place"

# Which files are the application's own.
class ShadowPlaceTest < Paceline::Test
  OWN = %w[config.ru app/models/beer.rb lib/gems.rb vendor/gems/prices-1.0.0/lib/prices.rb].freeze
  FOREIGN = %w[vendor/bundle/ruby/3.1.0/gems/rack-2.2.0/lib/rack.rb vendor/cache/x.rb .bundle/x.rb node_modules/x.rb tmp/gems/x.rb vendor/gems/a-1/vendor/gems/b.rb].freeze

  def test_files_below_the_root
    place = Paceline::Server::Shadow::Place.new("/srv/shop")
    assert_equal OWN, OWN.map { |path| place.relative("/srv/shop/#{path}") }
    assert_equal [nil], FOREIGN.map { |path| place.relative("/srv/shop/#{path}") }.uniq
    assert_nil place.relative("/srv/other/config.ru")
    assert_equal "vendor/gems/prices-1.0.0/lib/prices.rb:7", place.of(["/usr/lib/ruby/x.rb:1:in `y'", "/srv/shop/vendor/gems/prices-1.0.0/lib/prices.rb:7:in `z'"])
  end
end
