# Restarts under load: of a version that works, and of one that does not load.
class DeployStory < BenchStory
  self.title = "A deploy that nobody notices"
  self.slow = "While a server restarts its application, requests wait for the new version to load, or are refused; and a version that does not load takes " \
              "the old one with it."
  self.line = "touch tmp/restart.txt   # or USR1; with Capistrano: require \"paceline/capistrano\""
  self.measured = "25 clients during restarts, by Puma, Passenger, Unicorn and Paceline; shown: requests lost when the new version does not load"
  self.page = true
  self.needs = "the servers that are to be compared; those that are missing are left out"
end
