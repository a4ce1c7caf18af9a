workers 1
threads 32, 32
preload_app!
