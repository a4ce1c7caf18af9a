# frozen_string_literal: true

# What an app gets when it requires the gem: the version, the spans of the request in hand and the page cache. Starts nothing.
require_relative "paceline/version"
require_relative "paceline/cache"
require_relative "paceline/spans"
