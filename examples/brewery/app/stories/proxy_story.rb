# Redmine behind caches that keep each visitor's pages for seconds.
class ProxyStory < BenchStory
  self.title = "Pages that say private, for a few seconds"
  self.slow = "Redmine says `private` on every page, so no cache may keep one, and each request of each visitor runs the application."
  self.line = <<~TOML.strip
    [[cache]]
    path = "/*"
    ttl = "5s"
    cookies = ["Redmine"]
    set_cookie = "strip"
  TOML
  self.measured = "Redmine's front page in one session, by WEBrick alone and behind nginx, Varnish and Paceline, while its author edits issues"
  self.page = true
  self.needs = "Redmine, WEBrick, nginx and Varnish"
end
