# For what not everybody may do. The server has signed somebody on ([[sso]]); or, for those who try this guide on their own machine, anybody has the name that they
# give, and the cellar's password.
module SignedIn
  PASSWORD = "cellar".freeze

  private

  # As a server does it that has authenticated somebody: REMOTE_USER is whom Paceline.current.user finds.
  def sign_in
    return if request.env["REMOTE_USER"].present?

    authenticate_or_request_with_http_basic("The cellar") do |name, password|
      good = ActiveSupport::SecurityUtils.secure_compare(password, ENV.fetch("CELLAR_PASSWORD", PASSWORD))
      request.env["REMOTE_USER"] = name if good && name.present?
    end
  end

  # A password that is printed on the page is for this machine only.
  def sign_in_at_home
    return sign_in if request.env["REMOTE_USER"].present? || ENV["CELLAR_PASSWORD"].present? || request.local?

    render plain: "Only from this machine, with CELLAR_PASSWORD in the server's environment, or with single sign-on.\n", status: :forbidden
  end
end
