# Notes the visitor's country, by the first byte ranges of addresses.
class Geography
  RANGES = Array.new(120_000) { |i| [i * 35_791, format("%c%c", 65 + (i % 26), 65 + (i / 26 % 26))] }.reverse.freeze

  def initialize(app)
    @app = app
  end

  def call(env)
    address = env["REMOTE_ADDR"].to_s.split(".").inject(0) { |sum, byte| (sum * 256) + byte.to_i }
    env["shop.country"] = RANGES.bsearch { |from, _| from <= address }&.last
    @app.call(env)
  end
end
