class ReminderMailer < ActionMailer::Base
  default from: "shop@shop.test"

  def basket
    mail(to: "customer@shop.test", subject: "Your basket", body: "Three books wait for you.", content_type: "text/plain")
  end
end
