require_relative "app"

run Hello.freeze.app
