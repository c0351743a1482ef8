# The context has a folder `root` with the program, and with the libraries that it is linked to unless that was done statically.
FROM scratch
COPY root/ /
USER 65532:65532
ENTRYPOINT ["/fakecloud"]
