# The document store, if there is one: MONGO_SERVER=127.0.0.1:27017 names it, and `bin/demo --mongo` starts one. One client for each process, made when the first
# request needs it: a client has threads, which do not survive a fork.
module MongoConnection
  SERVER = ENV["MONGO_SERVER"].presence
  DATABASE = "brewery_guide".freeze
  # How long a page waits for a server that is away (s).
  PATIENCE = 2

  # The driver that Debian has (2.5) takes a lock in the finalizer of a cursor, which Ruby does not allow. All cursors of the guide are read to their end, so
  # that there is none to be ended later.
  module WithoutFinalizer
    NOTHING = proc {}

    def finalize(*)
      NOTHING
    end
  end
  private_constant :WithoutFinalizer

  @lock = Mutex.new

  class << self
    def configured?
      SERVER.present? && defined?(Mongo::Client)
    end

    def [](collection)
      client[collection]
    end

    private

    def client
      @lock.synchronize do
        @client = nil unless @pid == Process.pid
        @pid = Process.pid
        @client ||= begin
          Mongo::Logger.logger = Rails.logger
          Mongo::Cursor.singleton_class.prepend(WithoutFinalizer)
          Mongo::Client.new([SERVER], database: DATABASE, server_selection_timeout: PATIENCE, connect_timeout: PATIENCE, socket_timeout: 5)
        end
      end
    end
  end
end
