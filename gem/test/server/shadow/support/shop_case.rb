# frozen_string_literal: true

require "helper"
require "json"

# Tests that run code in the shop of shop.rb, each time in a process of its own.
class ShopCase < Paceline::Test
  SUPPORT = __dir__
  LIB = File.expand_path("../../../../lib", __dir__)
  HERE = %w[activerecord actionmailer activejob builder sqlite3].all? { |name| Gem::Specification.find_all_by_name(name).any? }

  # What `code` returns, within Shop, after JSON.
  def self.run_in_shop(code)
    Dir.mktmpdir do |dir|
      out, error, status = Open3.capture3({ "RAILS_ENV" => nil, "PACELINE_EGRESS" => nil }, RbConfig.ruby, "-W0", "-I#{LIB}", File.join(SUPPORT, "shop.rb"), dir, code)
      raise "#{code}: #{error}" unless status.success?

      JSON.parse(out.lines.last)["result"]
    end
  end

  def setup
    skip "Rails is not here" unless HERE
  end

  def in_shop(code)
    self.class.run_in_shop(code)
  end
end
