# A plugin for Redmine (plugins/server_login/init.rb): somebody whom the server has signed in (REMOTE_USER) is signed in to Redmine, if Redmine has an active user of
# that login. Redmine itself has no setting for it. It never looks at a header: only the server in front can set REMOTE_USER.
Redmine::Plugin.register :server_login do
  name "Login by the server"
  description "Signs in whom the server has signed in (REMOTE_USER)."
  version "1.0.0"
end

module ServerLogin
  private

  # Programs of Redmine's API have keys of their own.
  def find_current_user
    login = request.env["REMOTE_USER"].presence
    return super if login.nil? || api_request?

    user = User.active.find_by_login(login) or return super
    unless session[:user_id] == user.id
      reset_session
      start_user_session(user)
    end
    super
  end
end

# Redmine loads this file again whenever it loads its classes again.
ApplicationController.prepend(ServerLogin)
