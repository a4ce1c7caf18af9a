# frozen_string_literal: true

# What an app gets when it requires the gem: the version and the spans of the request in hand. Starts nothing.
require_relative "paceline/version"
require_relative "paceline/spans"
