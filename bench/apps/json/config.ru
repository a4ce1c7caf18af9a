# frozen_string_literal: true

# A JSON page of an application that keeps much in memory: 300,000 objects live, and a page makes 3,000 more. What a collection costs beside a request.
require "json"

CATALOGUE = Array.new(60_000) { |i| { "id" => i, "name" => "Beer #{i}", "style" => "Style #{i % 90}", "brewery" => "Brewery #{i % 700}" } }
PAGE = 200

page = lambda do |_env|
  beers = CATALOGUE.first(PAGE).map do |beer|
    beer.merge("path" => "/beers/#{beer["id"]}", "title" => [beer["name"], beer["style"]].join(", "), "tags" => beer["style"].split.map(&:downcase))
  end
  [200, { "content-type" => "application/json" }, [JSON.generate("beers" => beers)]]
end

run ->(env) { env["PATH_INFO"] == "/beers.json" ? page.call(env) : [404, { "content-type" => "text/plain" }, ["not here\n"]] }
