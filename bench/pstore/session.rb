# frozen_string_literal: true

# The record of `bin/bench pstore`: what a shop keeps in a session. Marshal makes 1.1 KB of it, and of that some 70 objects.
require "digest"

module Bench
  module PStoreSession
    module_function

    # Random as those of Rails, and the same in every process.
    def name(number) = Digest::MD5.hexdigest("session #{number}")

    def make(number)
      { "user_id" => 10_000 + number, "_csrf_token" => Digest::SHA256.base64digest("token #{number}"), "counter" => 0,
        "warden.user.user.key" => [[10_000 + number], "$2a$12$Tm9ib2R5IGtub3dzIG1l"], "warden.user.user.session" => { "last_request_at" => 1_795_000_000 },
        "locale" => "de", "time_zone" => "Europe/Berlin", "return_to" => "/projects/paceline/issues?page=3&sort=updated_on",
        "flash" => { "discard" => [], "flashes" => { "notice" => "Your changes have been saved." } },
        "cart" => Array.new(5) { |i| { "sku" => format("A-%06d", number % 1000 + i), "name" => +"Espresso beans, 1 kg, dark roast", "quantity" => i + 1, "price_cents" => 1890, "gift" => false } },
        "recent" => Array.new(8) { |i| number + i * 17 },
        "query" => { "filters" => { "status" => "open", "assignee" => "me" }, "columns" => %w[id subject status priority], "page" => 3 } }
    end

    # In Marshal's format, for stores that are filled directly: one of a thousand, since to make a million of them takes minutes.
    def dumped(number)
      (@dumped ||= {})[number % 1000] ||= Marshal.dump(make(number % 1000)).freeze
    end
  end
end
