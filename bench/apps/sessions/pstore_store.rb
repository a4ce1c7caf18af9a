# frozen_string_literal: true

require "action_dispatch"
require "action_dispatch/middleware/session/abstract_store"
require "pstore"

# Sessions as CGI::Session::PStore kept them, which was Rails' own store once: a PStore file for each.
class PStoreStore < ActionDispatch::Session::AbstractSecureStore
  def find_session(_request, sid)
    found = sid && File.exist?(path(sid)) && PStore.new(path(sid)).transaction(true) { |store| store["session"] }
    found ? [sid, found] : [generate_sid, {}]
  end

  def write_session(_request, sid, session, _options)
    PStore.new(path(sid)).transaction { |store| store["session"] = session }
    sid
  end

  def delete_session(_request, sid, options)
    File.unlink(path(sid)) if File.exist?(path(sid))
    generate_sid unless options[:drop]
  end

  private

  def path(sid) = File.join(@default_options[:folder], sid.private_id.delete(":"))
end
