# A browser by hand: cookies of each site, redirects if asked, and a ticket when a site says Negotiate. Names that end with .test are this machine.
# It asserts nothing itself.
require "net/http"
require "uri"

class Browser
  # Each request that was made, in its order: the path and the status.
  attr_reader :visits, :base
  # Tokens of servers that proved themselves.
  attr_reader :proofs

  def initialize(base, authority: nil, ticket: nil, agent: "Mozilla/5.0 (X11; Linux x86_64) Chrome/130.0", fields: {})
    @base, @authority, @ticket, @agent, @fields = URI(base), authority, ticket, agent, fields
    @visits, @proofs, @cookies = [], [], Hash.new { |hash, site| hash[site] = {} }
  end

  # As a browser opens a page: it says that it navigates and takes HTML.
  def open(path, fields = {})
    get(path, { "Accept" => "text/html,application/xhtml+xml,*/*;q=0.8", "Sec-Fetch-Mode" => "navigate", "Sec-Fetch-Dest" => "document" }.merge(fields))
  end

  def get(path, fields = {}) = ask(Net::HTTP::Get, path, fields)

  def post(path, form, fields = {})
    ask(Net::HTTP::Post, path, fields) { |request| form.is_a?(String) ? request.body = form : request.set_form_data(form) }
  end

  # Follows redirects until there is none or the block, given each address, says so.
  def follow(answer, from: @last, limit: 20)
    while (location = answer["location"])
      raise "it goes round in circles: #{visits.last(6)}" if (limit -= 1).negative?
      target = URI.join(from, location)
      return answer if block_given? && yield(target.to_s)
      answer = open(target.to_s)
      from = target
    end
    answer
  end

  # Goes through the forms of oidc-provider as somebody.
  def sign_in_as(name, answer)
    answer = follow(answer)
    while (action = answer.body.to_s[/<form[^>]*action="([^"]+)"/, 1])
      form = answer.body.include?('value="login"') ? { "prompt" => "login", "login" => name, "password" => "any" } : { "prompt" => "consent" }
      answer = post(URI.join(@last, action).to_s, form)
      answer = block_given? ? follow(answer) { |target| yield target } : follow(answer)
      return answer if answer["location"]
    end
    answer
  end

  def cookies(site = site_of(@base)) = @cookies[site]

  # The address that was asked last.
  attr_reader :last

  private

  def ask(kind, path, fields)
    answer = send_once(kind, path, fields) { |request| yield request if block_given? }
    offers = answer.get_fields("www-authenticate").to_a.any? { |challenge| challenge.match?(/\ANegotiate\b/i) }
    if @ticket && answer.code == "401" && offers && fields.keys.none? { |name| name.casecmp?("authorization") }
      answer = send_once(kind, path, fields.merge("Authorization" => "Negotiate #{@ticket.call}")) { |request| yield request if block_given? }
    end
    answer
  end

  def send_once(kind, path, fields)
    @last = uri = path.match?(/\Ahttps?:/) ? URI(path) : URI("#{site_of(@base)}#{path}")
    jar = @cookies[site_of(uri)]
    request = kind.new(path.match?(/\Ahttps?:/) ? uri.request_uri : path, { "User-Agent" => @agent }.merge(@fields).merge(fields))
    request["Cookie"] = jar.map { |pair| pair.join("=") }.join("; ") unless jar.empty?
    yield request
    answer = connection(uri).start { |http| http.request(request) }
    answer.body.force_encoding(Encoding::UTF_8) if answer.body && answer["content-type"].to_s.match?(/text|json|html/)
    @visits << [uri.path, answer.code]
    keep(jar, answer)
    answer.get_fields("www-authenticate").to_a.each { |challenge| @proofs << $1 if challenge =~ /\ANegotiate (\S+)/ }
    answer
  end

  def connection(uri)
    http = Net::HTTP.new(uri.host, uri.port, nil)
    http.ipaddr = "127.0.0.1" if uri.host.end_with?(".test", ".example") || uri.host == "localhost"
    http.read_timeout = 60
    return http unless uri.scheme == "https"
    http.use_ssl = true
    http.ca_file = @authority
    http
  end

  # A cookie's path plays no part here.
  def keep(jar, answer)
    answer.get_fields("set-cookie").to_a.each do |cookie|
      name, value = cookie.split(";").first.split("=", 2)
      gone = value.to_s.empty? || cookie.match?(/max-age=0\b/i) || cookie.match?(/expires=Thu, 01 Jan 1970/i)
      gone ? jar.delete(name) : jar[name] = value
    end
  end

  def site_of(uri) = "#{uri.scheme}://#{uri.host}:#{uri.port}"
end
