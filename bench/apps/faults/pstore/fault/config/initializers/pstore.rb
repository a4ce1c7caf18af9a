require "pstore"
