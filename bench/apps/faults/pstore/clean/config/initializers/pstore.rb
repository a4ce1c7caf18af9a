require "pstore"
require "paceline/pstore"
Paceline::PStore.replace!
