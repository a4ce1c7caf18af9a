# An application that doesn't start: one of its files asks for a library that isn't there.
require_relative "cellar"

run Cellar.new
