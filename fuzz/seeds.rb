# Writes the corpus that is generated: messages of test/http1, frames of test/vectors. The handwritten seeds stay as they are.
#
#   ruby fuzz/seeds.rb
require "fileutils"
require_relative "../test/http1/cases"

CORPUS = File.join(__dir__, "corpus")
# Longer messages are about limits, which the targets have smaller ones of.
LONGEST = 300

def seed(target, name, bytes)
  return if bytes.bytesize > LONGEST * 3
  slug = name.downcase.gsub(/[^a-z0-9]+/, "-").gsub(/\A-|-\z/, "")
  FileUtils.mkdir_p(File.join(CORPUS, target))
  File.binwrite(File.join(CORPUS, target, slug), bytes)
end

FRAMINGS = ["\r\n", "Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nX-Sum: 1\r\n\r\n"].freeze
SECOND = "GET /second HTTP/1.1\r\nHost: second\r\n\r\n"

Http1::CASES.each_with_index do |row, index|
  next if row.bytes.bytesize > LONGEST
  # One of them is as good as all.
  next if row.name.start_with?("control character") && !row.name.include?("1f")
  name = "#{row.rfc[/[\d.]+$/]} #{row.name}"
  if row.whole && row.bytes.start_with?(Http1::CHUNKED)
    seed "chunked", name, row.bytes.byteslice(Http1::CHUNKED.bytesize..)
  else
    bytes = row.whole ? row.bytes + SECOND : row.bytes + FRAMINGS[index % 3] + SECOND
    seed "http1", name, bytes
    # Most differ only in what the guard refuses.
    seed "exchange", name, bytes if row.status == 200 || index % 10 == 0
  end
end

stream = "".b
Dir[File.join(__dir__, "../test/vectors/*.txt")].sort.each do |path|
  frame = [File.read(path)[/^hex: (\h+)/, 1]].pack("H*")
  seed "worker_frames", File.basename(path, ".txt"), frame
  stream << frame if stream.bytesize + frame.bytesize < LONGEST * 3
end
seed "worker_frames", "several", stream
