# More workers than the memory has room for.
class SwapStory < BenchStory
  self.title = "As many workers as there is memory for"
  self.slow = "With each worker more the machine answers more requests, until their memory does not fit any more: then the kernel moves pages to the disk " \
              "and back, and all of them wait."
  self.line = "workers = \"auto\""
  self.measured = "an application with 48 MB a worker in 256 MB of memory, by Puma, Unicorn and Paceline; shown: pages of 10 clients"
  self.page = false
  self.needs = "root, for a control group with swap space of its own"
end
