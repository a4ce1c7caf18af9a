# What the first transaction that writes would do.
$LOAD_PATH.unshift(File.join(ENV.fetch("PACELINE_GEM_DIR"), "lib"))
require "paceline/pstore"

Paceline::PStore.new("storage/wishes.pstore").transaction { |lists| lists["customer-0"] = lists["customer-0"] }
