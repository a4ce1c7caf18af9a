# Three applications under five servers.
class ServersStory < BenchStory
  self.title = "The same application under another server"
  self.slow = "The same application answers more or fewer requests depending on the server before it; and a page that is only a file need not reach Ruby at all."
  self.line = "paceline -e production -w 2 -t 5   # instead of puma, thin, unicorn or passenger"
  self.measured = "a blog of files, this guide and Redmine by Puma, Thin, Unicorn, Passenger and Paceline, 100 clients; shown: a page of the blog"
  self.page = true
  self.needs = "the servers that are to be compared, and Redmine; those that are missing are left out"
end
