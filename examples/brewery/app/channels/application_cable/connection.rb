module ApplicationCable
  class Connection < ActionCable::Connection::Base
    identified_by :guest

    def connect
      self.guest = "guest #{SecureRandom.alphanumeric(4).downcase}"
    end
  end
end
