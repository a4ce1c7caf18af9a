# Origins over TLS, by HTTP/1.1 and HTTP/2, for a scenario that has `origin`. It asserts nothing itself.
require_relative "certificates"
require_relative "http2_server"
require_relative "origin"

module SecureOrigin
  # An origin over TLS with a certificate for the names; the block is given each connection, its number and its TLS.
  def secure(authority, *names, alpn: nil, change: nil, &script)
    context = OpenSSL::SSL::SSLContext.new
    certificate, key = authority.issue(*names)
    context.cert = OpenSSL::X509::Certificate.new(certificate)
    context.key = OpenSSL::PKey.read(key)
    context.alpn_select_cb = ->(offered) { (Array(alpn) & offered).first } if alpn
    change&.call(context)
    origin do |link, number|
      tls = OpenSSL::SSL::SSLSocket.new(link.io, context)
      tls.accept
      script.call(Origin::Link.new(tls), number, tls)
    rescue OpenSSL::SSL::SSLError
      nil
    end
  end

  # The same over HTTP/2; the block is given each connection, and its number.
  def http2(authority, &script)
    secure(authority, "localhost", alpn: ["h2"]) do |_, number, tls|
      script.call(Http2Server.new(tls), number)
    end
  end
end
