require "page_update"

Mime::Type.register PageUpdate::TYPE, :turbo_stream
