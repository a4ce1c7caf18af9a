class RemindersController < ApplicationController
  def show
    ReminderMailer.basket.deliver_now
    render plain: "We have sent you a reminder."
  end
end
