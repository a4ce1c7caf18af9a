# Somebody with a browser's manners: one connection kept open, a cookie jar, and the form token of the last page seen.
require "net/http"
require "securerandom"
require "uri"

class Visitor
  attr_reader :cookies, :token

  def initialize(url)
    @base = URI(url)
    @http = Net::HTTP.start(@base.host, @base.port, read_timeout: 30, open_timeout: 5)
    @cookies = {}
  end

  def finish
    @http.finish if @http.started?
  end

  def get(path, headers = {})
    request(Net::HTTP::Get.new(path, headers))
  end

  def follow(answer)
    get(URI.join(@base.to_s, answer["location"]).request_uri)
  end

  # `login`: [name, password], by basic authentication.
  def post(path, fields, token: @token, login: nil)
    post = Net::HTTP::Post.new(path)
    post.set_form_data(with_token(fields, token))
    post.basic_auth(*login) if login
    request(post)
  end

  # files: { "field" => ["name.png", bytes] }
  def post_multipart(path, fields, files:, token: @token)
    boundary = "----visitor#{SecureRandom.hex(12)}"
    body = String.new(encoding: Encoding::BINARY)
    with_token(fields, token).each do |name, value|
      body << "--#{boundary}\r\nContent-Disposition: form-data; name=\"#{name}\"\r\n\r\n".b << value.to_s.b << "\r\n"
    end
    files.each do |name, (filename, bytes)|
      body << "--#{boundary}\r\nContent-Disposition: form-data; name=\"#{name}\"; filename=\"#{filename}\"\r\n".b
      body << "Content-Type: application/octet-stream\r\n\r\n".b << bytes.b << "\r\n"
    end
    body << "--#{boundary}--\r\n"
    post_body(path, body, "Content-Type" => "multipart/form-data; boundary=#{boundary}")
  end

  def post_body(path, body, headers)
    request(Net::HTTP::Post.new(path, headers).tap { |post| post.body = body })
  end

  def self.unescape(text)
    text.gsub("&quot;", '"').gsub("&#39;", "'").gsub("&lt;", "<").gsub("&gt;", ">").gsub("&amp;", "&")
  end

  private

  def with_token(fields, token)
    token ? { "authenticity_token" => token }.merge(fields) : fields
  end

  def request(request)
    request["Cookie"] = @cookies.map { |pair| pair.join("=") }.join("; ") unless @cookies.empty?
    answer = @http.request(request)
    answer.get_fields("set-cookie").to_a.each do |cookie|
      name, value = cookie.split(";", 2).first.split("=", 2)
      @cookies[name] = value
    end
    answer.body.force_encoding(Encoding::UTF_8) if answer.body && answer["content-type"].to_s.match?(/text|json|xml/)
    found = answer.body.to_s[/<meta name="csrf-token" content="([^"]+)"/, 1] if answer["content-type"].to_s.include?("html")
    @token = Visitor.unescape(found) if found
    answer
  end
end
