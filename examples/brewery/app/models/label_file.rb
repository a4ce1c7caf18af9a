# The picture on a bottle: one file for each beer, under storage/.
class LabelFile
  class Refused < StandardError; end

  LARGEST = 16 * 1024 * 1024
  TYPES = {
    "image/png" => ["png", "\x89PNG\r\n\x1a\n".b],
    "image/jpeg" => ["jpg", "\xff\xd8\xff".b],
    "image/gif" => ["gif", "GIF8".b],
    "image/webp" => ["webp", "RIFF".b]
  }.freeze

  attr_reader :path

  def self.for(beer)
    path = Dir.glob(folder.join("#{beer.id}.*")).first
    new(path) if path
  end

  # Judged by its first bytes; what the browser says of it proves nothing.
  def self.store(beer, upload)
    raise Refused, "Choose a picture first." unless upload.respond_to?(:tempfile)
    raise Refused, "That is over #{LARGEST / 1024 / 1024} MB." if upload.size > LARGEST

    head = upload.tempfile.tap(&:rewind).read(16).to_s.b
    extension, = TYPES.values.find { |_, magic| head.start_with?(magic) }
    raise Refused, "That is no PNG, JPEG, GIF or WebP picture." unless extension

    folder.mkpath
    arriving = folder.join(".#{beer.id}.#{SecureRandom.hex(4)}")
    FileUtils.cp(upload.tempfile.path, arriving)
    beer.label&.delete
    File.rename(arriving, folder.join("#{beer.id}.#{extension}"))
    beer.label
  end

  def self.folder
    Rails.root.join("storage/labels")
  end

  def initialize(path)
    @path = path
  end

  def type
    TYPES.find { |_, (extension, _magic)| path.end_with?(".#{extension}") }.first
  end

  def version
    File.mtime(path).to_i
  end

  def delete
    File.delete(path)
  end
end
