# The same scaffold on two versions of Rails and Ruby.
class RailsStory < BenchStory
  self.title = "Two versions of Rails, side by side"
  self.slow = "A new version of Rails and of Ruby changes speed and memory of every page at once, and most comparisons measure one after the other, on a " \
              "machine that has changed meanwhile."
  self.line = "paceline compare shop-old shop-new"
  self.measured = "the same scaffold on Rails 6.1 and 7.2, in turns; shown: the list, without sessions"
  self.page = false
  self.needs = "root, for a second Debian with Rails 7.2 beside this one: bin/trixie setup"
end
