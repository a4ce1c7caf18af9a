require_relative "app"

run Hello
