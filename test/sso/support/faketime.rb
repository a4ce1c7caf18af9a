# Programs at another time. By the library alone: the wrapper `faketime` names a semaphore after its own process, which stays where that is killed, and refuses to
# start with the number of a killed one.
module Faketime
  LIBRARY = Dir["/usr/lib/*/faketime/libfaketime.so.1"].first

  # What missing packages are named, as those of programs are.
  def self.missing = LIBRARY ? [] : ["faketime"]

  # Stands before a command. `clock`: how far from the right time it is, such as "-3h"; nil: not at all.
  def self.command(clock) = clock ? ["env", "LD_PRELOAD=#{LIBRARY}", "FAKETIME=#{clock}"] : []
end
