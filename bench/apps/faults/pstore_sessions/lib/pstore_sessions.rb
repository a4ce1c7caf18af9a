require "action_dispatch"
require "action_dispatch/middleware/session/abstract_store"
require "pstore"

# Sessions of all visitors in one PStore.
class PStoreSessions < ActionDispatch::Session::AbstractSecureStore
  def find_session(_request, sid)
    found = sid && store.transaction(true) { |sessions| sessions[sid.private_id] }
    found ? [sid, found] : [generate_sid, {}]
  end

  def write_session(_request, sid, session, _options)
    store.transaction { |sessions| sessions[sid.private_id] = session }
    sid
  end

  def delete_session(_request, sid, options)
    store.transaction { |sessions| sessions.delete(sid.private_id) }
    generate_sid unless options[:drop]
  end

  private

  def store = PStore.new(Rails.root.join("storage/sessions.pstore").to_s)
end
