# The context is the folder with the program, linked statically: nothing else is in the image.
FROM scratch
COPY fakecloud /fakecloud
USER 65532:65532
ENTRYPOINT ["/fakecloud"]
